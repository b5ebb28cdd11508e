(** Installed packages, found by the command [ocamlfind]: findlib itself is not linked. *)

(** Why a package cannot be had. Registered with [Location]. *)
exception Cannot_require of string

(** [require names] loads packages and what they need, in order, except for those that are
    loaded: folders join the load path, archives are linked ({!Archive.require}), ppx
    rewriters apply to the phrases that follow. Initialisers are user code; run it under
    {!Interrupt.guard}. If it fails, the packages before the failing one stay loaded.
    @raise Cannot_require
    @raise Archive.Cannot_load
    @raise Archive.Initialiser_raised *)
val require : string list -> unit

(** The packages that were required by name since the last reset, in order. *)
val required : unit -> string list

(** Adds [#require], [#list] and the other directives that findlib's [topfind] brings. Call
    once. *)
val install : unit -> unit

(** No package counts as loaded. For a reset. *)
val forget : unit -> unit

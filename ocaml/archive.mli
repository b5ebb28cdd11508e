(** Compiled code, loaded into the session. *)

(** Why a file cannot be loaded: what, where, what to do. Registered with [Location], so
    directives that raise it report it like the compiler. *)
exception Cannot_load of string

(** The initialiser of a unit raised: the file, what it raised, the backtrace. *)
exception Initialiser_raised of string * exn * string

(** [load path] links the units of [path] and returns their names. The folder of [path]
    joins the load path. Initialisers are user code; run it under {!Interrupt.guard}. What
    fails leaves interfaces, units and load path as they were.
    @raise Cannot_load
    @raise Initialiser_raised *)
val load : string -> string list

(** As {!load}, for a file of a package: one that was loaded since the last reset is not
    loaded again. *)
val require : string -> unit

(** [add_directory folder] puts it on the load path, first, as it is now on disk; the stub
    libraries in it and in the [stublibs] folders near it are found. *)
val add_directory : string -> unit

(** Replaces [#load] and [#load_rec] by ones that load like {!load}, and [#show_dirs] by one
    that prints like other directives. Call once. *)
val install : unit -> unit

(** No file counts as loaded; what stays in the process is known with its interfaces.
    For a reset. *)
val forget : unit -> unit

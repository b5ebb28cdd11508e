(** Compiled code, loaded into the session. *)

(** Why a file cannot be loaded: what, where, what to do. Registered with [Location], so
    directives that raise it report it like the compiler. *)
exception Cannot_load of string

(** The initialiser of a unit raised: the file, what it raised, the backtrace. *)
exception Initialiser_raised of string * exn * string

type file =
  { path : string
  ; digest : Digest.t  (** of its contents *)
  ; units : Objfile.compilation_unit list
  }

(** [load path] links the units of [path] and returns their names. The folder of [path]
    joins the load path. Initialisers are user code; run it under {!Interrupt.guard}. What
    fails leaves interfaces, units and load path as they were.
    @raise Cannot_load
    @raise Initialiser_raised *)
val load : string -> string list

(** As {!load}, for a file of a package: one that was loaded since the last reset is not
    loaded again. *)
val require : string -> unit

(** [read path] looks into a file that {!load} would take. @raise Cannot_load *)
val read : string -> file

(** The file as it was when it was loaded from [path], if that was since the last reset. *)
val loaded : string -> file option

(** Whether a file of these contents was. *)
val is_loaded : Digest.t -> bool

(** [users names] are the units [names] and all loaded ones that know their interfaces. *)
val users : string list -> string list

(** [withdraw names] takes loaded units and their interfaces away: no phrase and no file can
    refer to them until they are loaded again. Code that has them goes on. *)
val withdraw : string list -> unit

(** [add_directory folder] puts it on the load path, first, as it is now on disk; the stub
    libraries in it and in the [stublibs] folders near it are found. *)
val add_directory : string -> unit

(** Replaces [#load] and [#load_rec] by ones that load like {!load}, and [#show_dirs] by one
    that prints like other directives. Call once. *)
val install : unit -> unit

(** The files that were loaded since the last reset other than by {!require}. *)
val by_hand : unit -> string list

(** No file counts as loaded; what stays in the process is known with its interfaces.
    For a reset. *)
val forget : unit -> unit

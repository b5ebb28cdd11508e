(** A file of compiled code: its units, read without running them, and their linking into
    the process. *)

type t

type compilation_unit =
  { name : string
  ; interfaces : (string * Digest.t option) list
      (** those that it was compiled with; its own, too *)
  }

(** Why the code cannot be linked, without the name of the file. *)
exception Unusable of string

(** An initialiser raised; the backtrace, as [Printexc] prints it. *)
exception Raised of exn * string

(** The kinds of file that can be linked here, by extension, the usual one first. *)
val extensions : string list

(** [with_file path f] is [f] of the file, which has the right magic number.
    @raise Unusable
    @raise Failure or [End_of_file] if the file is damaged. *)
val with_file : string -> (t -> 'a) -> 'a

val units : t -> compilation_unit list

(** [digest path] is that of all the code which {!with_file} would link from [path]. *)
val digest : string -> Digest.t

(** The units that it needs and that are not there. *)
val missing : t -> string list

(** Whether this very code is in the process already and cannot be linked again.
    @raise Unusable if other code under the same names is. *)
val is_resident : t -> bool

(** The units of all that {!is_resident}. *)
val resident : unit -> compilation_unit list

(** [add_directory folder] is where the shared libraries of C stubs are found. *)
val add_directory : string -> unit

(** [link file] links the units and runs their initialisers, in order. What fails leaves
    the units that were known before, and no others.
    @raise Unusable
    @raise Raised *)
val link : t -> unit

(** Code that is in the process for good is out of the session: phrases may not refer to
    its units until they are {!admit}ted again. *)
val dismiss_all : unit -> unit

val admit : string list -> unit

(** Whether units can be taken out of sight and linked anew. *)
val replaceable : bool

(** [hide names]: no phrase refers to these units any more, where they are {!replaceable}. *)
val hide : string list -> unit

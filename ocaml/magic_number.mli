(** What kind of file the compiler left, told by its first bytes. *)

type kind =
  | Bytecode of extension
  | Machine_code of extension
  | Interface  (** [.cmi], [.cmti] and the like: nothing to run *)
  | Source
  | C_code  (** objects and libraries that no OCaml unit describes *)
  | Other

(** With the dot. *)
and extension = string

(** [kind path] tells by content; by name where the content says nothing.
    @raise Sys_error if the file cannot be read. *)
val kind : string -> kind

(** [problem number ~wanted] says what is wrong with a file whose magic number is
    [number], if this compiler wants another. *)
val problem : string -> wanted:string -> string option

(** The magic number that a file begins with; [""] if it has none. *)
val read : string -> string

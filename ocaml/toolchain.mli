(** Commands of the OCaml toolchain that this toplevel belongs to. *)

(** [command text] is a shell command that finds the tools and packages of this toplevel's
    own OCaml first, where PATH does not lead to them anyway. *)
val command : string -> string

(** What {!command} puts first. Set by [Bridge]; see [src/toolchain.rs]. *)
val environment : (unit -> string) ref

(** [output words] runs {!command} of a program and its arguments and returns what it wrote
    to stdout; if it fails, its status and what it wrote to stderr. Nothing of it is the
    user's output. It can be interrupted. *)
val output : string list -> (string, int * string) result

(** Commands of the OCaml toolchain that this toplevel belongs to. *)

(** [command text] is a shell command that finds the tools and packages of this toplevel's
    own OCaml first, where PATH does not lead to them anyway. *)
val command : string -> string

(** What {!command} puts first. Set by [Bridge]; see [src/toolchain.rs]. *)
val environment : (unit -> string) ref

(** The load path. *)

val all : unit -> string list

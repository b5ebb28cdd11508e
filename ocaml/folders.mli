(** The load path. *)

val all : unit -> string list
val remove : string -> unit

(** What differs between the bytecode and the native toplevel. *)

(** Prepares the compiler for this variant. Call once, before the environment is
    built. *)
val install : unit -> unit

(** [backtrace printed] is the backtrace of the exception that just ended a
    phrase; [printed] is what [Toploop.execute_phrase] wrote. *)
val backtrace : string -> string

(** The break that stops an evaluation.

    Rust sends SIGINT to the eval thread, again and again until the evaluation ends; the
    handler here turns it into [Sys.Break], but only where an exception is harmless. *)

(** Makes SIGINT ours. Call once; user code cannot change it (see [src/interrupt.rs]). *)
val install : unit -> unit

(** Whether the caller runs on the thread that evaluates; another one that happens to run
    the handler must not be the one that is stopped. Set by [Bridge]. *)
val on_eval_thread : (unit -> bool) ref

(** [guard f] is [f ()], during which a SIGINT raises [Sys.Break]: at once in user code,
    and in the compiler after it has ignored [compiler_patience] of them (default 0). Before
    and after, and between the end of user code and the commit of its bindings, a SIGINT
    does nothing. *)
val guard : ?compiler_patience:int -> (unit -> 'a) -> 'a

(** Whether a SIGINT may raise; {!guard} sets and clears it. Where an exception must not
    come, clear it by assignment: a function call could still let one in. *)
val armed : bool ref

(** Whether the handler raised since the last [forget]. It tells our break from
    a [Sys.Break] that user code raised itself. *)
val raised : unit -> bool

val forget : unit -> unit

(** What [Stdlib.exit] raises, after the functions of [at_exit] have run: user code ends its
    evaluation, not the process (see [src/interrupt.rs]). *)
exception Ended of int

(** The break that stops an evaluation.

    Rust sends SIGINT to the eval thread; the handler here turns it into
    [Sys.Break], but only where an exception is harmless. *)

(** Makes SIGINT ours again, whatever user code did to it. *)
val install : unit -> unit

(** [guard f] is [f ()], during which a SIGINT raises [Sys.Break]. Before and
    after, and between the end of user code and the commit of its bindings, a
    SIGINT does nothing: Rust sends it again until the evaluation ends. *)
val guard : (unit -> 'a) -> 'a

(** Whether a SIGINT may raise; {!guard} sets and clears it. An engine clears it as soon
    as user code has ended. *)
val armed : bool ref

(** Whether the handler raised since the last [forget]. It tells our break from
    a [Sys.Break] that user code raised itself. *)
val raised : unit -> bool

val forget : unit -> unit

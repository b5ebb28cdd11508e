(** How a phrase's machine code gets into this process.

    The compiler's own loader assembles, calls the C compiler to link, and
    [dlopen]s. This one calls the linker itself, marks the time in which user
    code runs, and keeps the backtrace of an exception. *)

val install : unit -> unit

(** Called before a phrase is compiled to machine code. Set by [Objfile]. *)
val before_compilation : (unit -> unit) ref

(** The backtrace of the exception that ended the last phrase; empty if none. *)
val backtrace : unit -> string

(** Whether phrases may not refer to a unit, though it is in the process. Set by
    [Objfile]. *)
val is_outside : (string -> bool) ref

(** The block of a symbol, if there is one. *)
val lookup : string -> Obj.t option
(** Whether the unit that a symbol stands for is in this process. *)
val is_loaded : string -> bool

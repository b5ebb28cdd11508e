external exit : int -> unit = "harm_exit"
external exit_at_once : int -> unit = "harm_exit_at_once"
external quick_exit : int -> unit = "harm_quick_exit"

(* Of the thread that calls it. *)
external thread_exit : unit -> unit = "harm_thread_exit"

external abort : unit -> unit = "harm_abort"
external free_twice : unit -> unit = "harm_free_twice"
external kill : int -> int = "harm_kill"
external bus : unit -> int = "harm_bus"
external deep : unit -> int = "harm_deep"
external spin : unit -> unit = "harm_spin"
external sleep : int -> unit = "harm_sleep"
external mask_all : unit -> unit = "harm_mask_all"
external ignore_signal : int -> unit = "harm_ignore"
external default : int -> unit = "harm_default"
external no_signal_stack : unit -> unit = "harm_no_signal_stack"

(* Resources have the numbers of the system: 0 CPU, 1 file size, 7 open files. *)
external limit : int -> int -> unit = "harm_limit"
external soft : int -> int = "harm_soft"

external locale : string -> unit = "harm_locale"
external close : int -> int = "harm_close"
external close_range : int -> int -> int = "harm_close_range"
external close_from : int -> unit = "harm_close_from"
external nonblock : int -> int = "harm_nonblock"
external close_streams : unit -> unit = "harm_close_streams"

(** One name of the environment. *)

type t =
  { name : string
  ; kind : string
        (** ["value"], ["constructor"], ["exception"], ["class"], ["class type"], ["type"],
            ["field"], ["module"] or ["module type"] *)
  ; typ : string  (** a value's type scheme; of everything else the declaration *)
  ; location : string option
        (** [phrase 12, line 1, characters 4-9] for what a phrase of the log defined, the
            place counted in the source that it came with; else as the compiler names
            places, with the file of an installed library where it is installed *)
  ; value_preview : string option
  ; doc : string option
  ; also : (string * string) list  (** kind and type of what else has the name *)
  ; interrupted : bool  (** while the preview was printed, which is missing then *)
  }

(** [find name] is what a name stands for in the current environment; a value, if there is
    one. Names may be qualified; operators may have their brackets or not. An error says
    what is wrong with the name, or which names are near it.

    Runs no user code but the printers that are installed, under {!Interrupt.guard}. *)
val find : string -> (t, string) result

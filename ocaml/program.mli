(** The session as a program: its phrases as one compilation unit. *)

type t =
  { text : string  (** an implementation, to be compiled with an empty interface *)
  ; flags : string list  (** what the compiler must be told to read it as the toplevel did *)
  ; phrases : string list  (** the texts of the phrases, directives too *)
  }

(** [of_log ~entry log] is the program of the phrases of [log], without directives, that
    then calls [entry]. The error says why [entry] will not do: it must be in scope with
    type [unit -> _].

    Later phrases may define the names of types and modules anew, which one structure may
    not, so phrases are put into [open struct … end] where that matters. Each keeps its
    place as ["phrase 3"], line and column, for the compiler's messages. *)
val of_log : entry:string -> string -> (t, string) result

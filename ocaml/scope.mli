(** What of the session's environment outlives a change of interfaces. *)

(** [drop unit_names] finds all that the session has defined and whose types mention one of
    these units, and all that depends on it. It returns the names of these bindings, and
    what makes the environment one without them; run that when the units' new interfaces
    are in force. Printers for such types are removed at once. *)
val drop : string list -> string list * (unit -> unit)

(** A toplevel in which nothing has happened yet. *)

(** Takes the present state for that. Call once, when the toplevel is up. *)
val remember : unit -> unit

(** Brings it back: bindings, types and their values, libraries, printers, the effects of
    directives, warnings, load path and current directory are gone or as they were.
    Background threads go on. *)
val restore : unit -> unit

(** [remove_printers_that is_unwanted] removes installed printers by their paths. *)
val remove_printers_that : (Path.t -> bool) -> unit

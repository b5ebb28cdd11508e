(** The values of phrases, which hang on symbols, and how long they live.

    Machine code that refers to a value of a phrase names its symbol, so the value could
    never be dropped: some closure might still run. Here the code of a phrase is changed
    so that its functions take the values that they refer to along, as bytecode does. What
    functions still name by symbol is known, and stays. *)

(** [close ~name ~size code] is the code of the phrase [name], whose block has [size]
    fields, with functions that take along what they refer to. *)
val close : name:string -> size:int -> Lambda.lambda -> Lambda.lambda

(** [forget ~lookup] drops the values of all phrases so far, but for those that functions
    name by symbol. [lookup symbol] is a phrase's block. No later phrase may refer to
    them. *)
val forget : lookup:(string -> Obj.t option) -> unit

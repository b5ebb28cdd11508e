(** Names as people write them: [List.map], [M.A], [+], [List.( @ )], [Set.Make(Int).t]. *)

(** The error says what a name looks like. *)
val parse : string -> (Longident.t, string) result

(** [missing env name] is the message for a well-formed name that stands for nothing. It
    says which part is unknown and what is near it. *)
val missing : Env.t -> string -> string

(** What a scope holds: an environment, or a module in it. *)

type entry =
  { name : string
  ; kind : string  (** as {!Lookup} names it: ["value"], ["module type"] … *)
  ; path : Path.t option  (** for constructors and fields that of their type *)
  ; typ : unit -> string option  (** its type, where that is short *)
  }

(** Everything of every namespace, in no order; the compiler's own names for units within
    a library ([Stdlib__List]) are left out. [Some module] asks for a module's contents; of
    one that is unbound or a functor there are none. *)
val entries : Env.t -> Longident.t option -> entry list

(** [printed env print x] is what [print] prints for [x] where [env] is in scope. *)
val printed : Env.t -> (Format.formatter -> 'a -> unit) -> 'a -> string

(** A type scheme as the toplevel prints it. *)
val scheme : Env.t -> Types.type_expr -> string

(** Whether it is the type of exceptions. *)
val is_exception : Env.t -> Types.type_expr -> bool

(** The type constructor that a type is an instance of. *)
val type_path : Types.type_expr -> Path.t option

(** The declaration of a type, as the toplevel prints it. *)
val declaration : Env.t -> Path.t -> Types.type_declaration -> string

(* Usage: debug_info IN OUT. Cuts the debugging information of linked bytecode (the .cds
   file that ocamlc -g -output-obj leaves) down to what backtraces through the standard
   library need: its units only, without types and environments.

   The format is that of bytecomp/bytelink.ml and bytecomp/bytesections.ml: sections, then
   their names and lengths, their number, and a magic number. The section DBUG is a number
   of units, and for each its offset, its events and its source directories. *)

let section_names ic =
  let trailer = in_channel_length ic - 16 in
  seek_in ic trailer;
  let count = input_binary_int ic in
  let magic = really_input_string ic 12 in
  seek_in ic (trailer - (8 * count));
  let read _ =
    let name = really_input_string ic 4 in
    name, input_binary_int ic
  in
  let sections = List.init count read in
  let total = List.fold_left (fun sum (_, length) -> sum + length) 0 sections in
  magic, sections, trailer - (8 * count) - total

let seek_section ic wanted =
  let magic, sections, first = section_names ic in
  let rec find at = function
    | (name, _) :: _ when name = wanted -> seek_in ic at
    | (_, length) :: rest -> find (at + length) rest
    | [] -> failwith ("no section " ^ wanted)
  in
  find first sections;
  magic

(* Backtraces read an event's position, location and the name of its function. Whatever is
   left of the rest, all events of a unit share. *)
let bare (first : Instruct.debug_event) (event : Instruct.debug_event) =
  { event with
    ev_typenv = Env.Env_empty
  ; ev_typsubst = Subst.identity
  ; ev_compenv = first.ev_compenv
  ; ev_info = Event_other
  ; ev_repr = Event_none
  }

let is_stdlib directory = Filename.basename directory = "stdlib"

let read_unit ic =
  let offset = input_binary_int ic in
  let events : Instruct.debug_event list = input_value ic in
  let directories : string list = input_value ic in
  if events <> [] && List.exists is_stdlib directories then Some (offset, List.map (bare (List.hd events)) events)
  else None

let () =
  let ic = open_in_bin Sys.argv.(1) in
  let magic = seek_section ic "DBUG" in
  let count = input_binary_int ic in
  let units = List.filter_map Fun.id (List.init count (fun _ -> read_unit ic)) in
  let oc = open_out_bin Sys.argv.(2) in
  output_binary_int oc (List.length units);
  List.iter
    (fun (offset, events) ->
      output_binary_int oc offset;
      output_value oc events;
      output_value oc ([] : string list))
    units;
  let length = pos_out oc in
  output_string oc "DBUG";
  output_binary_int oc length;
  output_binary_int oc 1;
  output_string oc magic;
  close_out oc

//! `glue MODULE FOLDER NAME`: writes NAME.js, its types and NAME_bg.wasm, which call a compiled module, into a folder.

use std::env::args;
use std::error::Error;
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let given: Vec<String> = args().skip(1).collect();
    let [module, folder, name] = &given[..] else { return Err("usage: glue MODULE FOLDER NAME".into()) };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(module).web(true)?.typescript(true).remove_producers_section(true).out_name(name);
    // A caller may leave out the module's address.
    bindgen.omit_default_module_path(false);
    Ok(bindgen.generate(folder)?)
}

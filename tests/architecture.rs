//! Rules for the source itself: allowed dependencies between modules, and lengths of files, files that guides name.

use foretoken::internals::model::Architecture;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn files(folder: &str, extension: &str) -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, extension: &str, found: &mut Vec<(PathBuf, String)>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, extension, found);
            } else if path.extension().is_some_and(|found| found == extension) {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    let mut found = Vec::new();
    walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), extension, &mut found);
    found
}

/// Returns the Rust files of all crates that are published, and of the exports for JavaScript.
fn sources() -> Vec<(PathBuf, String)> {
    ["src", "dsi/src", "measure/src", "program/src", "quantize/src", "serve/src", "browser/src", "simulate/src"]
        .iter()
        .flat_map(|folder| files(folder, "rs"))
        .collect()
}

/// Returns the top-level module of a file in src/; for a backend also its folder.
fn module(path: &Path) -> String {
    let relative = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    let folders: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
    let depth = if folders[0] == "backend" { folders.len().min(3) - 1 } else { 1 };
    folders[..depth].join("/").trim_end_matches(".rs").to_owned()
}

/// Returns the top-level modules that a text names as `crate::module`.
fn used(text: &str) -> Vec<String> {
    let names = text.match_indices("crate::").map(|(at, prefix)| &text[at + prefix.len()..]);
    names.map(|rest| rest.split(|c: char| !c.is_ascii_lowercase() && c != '_').next().unwrap().to_owned()).collect()
}

#[test]
fn dependencies_point_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("error", &[][..]),
        ("cancel", &["error"]),
        ("constraint", &["error"]),
        ("grammar", &["constraint", "error", "json"]),
        ("options", &["constraint", "error"]),
        ("json", &[]),
        ("http", &[]),
        ("text", &["error", "json"]),
        ("weights", &["error"]),
        ("model", &["error", "options", "weights"]),
        ("sample", &[]),
        ("target", &["error", "sample"]),
        ("gpu", &["error", "model", "options", "weights"]),
        ("backend", &["constraint", "error", "gpu", "model", "options", "target"]),
        ("backend/gpu", &["backend", "constraint", "error", "gpu", "model", "options", "sample", "target", "weights"]),
        ("backend/cpu", &["backend", "constraint", "error", "gpu", "model", "options", "sample", "target", "weights"]),
        ("backend/server", &["backend", "constraint", "error", "gpu", "http", "sample", "target", "text"]),
        ("speculate", &["error", "options", "target"]),
        ("hub", &["cancel", "checkpoint", "error", "http", "weights"]),
        ("files", &["cancel", "error", "hub", "weights"]),
        (
            "engine",
            &[
                "backend",
                "cancel",
                "checkpoint",
                "error",
                "files",
                "gpu",
                "options",
                "parallel",
                "session",
                "text",
                "weights",
            ],
        ),
        (
            "session",
            &[
                "backend",
                "constraint",
                "error",
                "gpu",
                "grammar",
                "model",
                "options",
                "sample",
                "speculate",
                "target",
                "text",
            ],
        ),
        ("checkpoint", &["error", "model", "options", "text", "weights"]),
        (
            "load",
            &["backend", "checkpoint", "error", "gpu", "model", "options", "session", "target", "text", "weights"],
        ),
        (
            "parallel",
            &[
                "backend",
                "checkpoint",
                "constraint",
                "error",
                "gpu",
                "load",
                "model",
                "options",
                "sample",
                "session",
                "speculate",
                "target",
                "text",
                "weights",
            ],
        ),
    ]);
    for (path, text) in files("src", "rs") {
        let module = module(&path);
        if module == "lib" {
            continue;
        }
        let allowed = allowed.get(module.as_str()).unwrap_or_else(|| panic!("{module} is not in the table"));
        for name in used(&text) {
            let itself = name == module || name.is_empty();
            assert!(itself || allowed.contains(&name.as_str()), "{}: {module} may not use {name}", path.display());
        }
    }
}

/// Returns the first names after each `super::` of a text.
fn siblings(text: &str) -> BTreeSet<String> {
    let names = text.match_indices("super::").flat_map(|(at, prefix)| {
        let rest = &text[at + prefix.len()..];
        let names = rest.strip_prefix('{').map_or(rest, |rest| rest.split('}').next().unwrap());
        names.split(',').take(if rest.starts_with('{') { usize::MAX } else { 1 })
    });
    names.map(|name| name.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()).collect()
}

#[test]
fn files_of_a_backend_form_no_cycle() {
    for folder in ["src/backend/cpu", "src/backend/gpu", "src/backend/server"] {
        let own = |(path, _): &(PathBuf, String)| path.parent().unwrap().ends_with(folder) && !path.ends_with("mod.rs");
        let name = |path: &Path| path.file_stem().unwrap().to_string_lossy().into_owned();
        let files = files(folder, "rs").into_iter().filter(own);
        let mut uses: BTreeMap<String, _> = files.map(|(path, text)| (name(&path), siblings(&text))).collect();
        loop {
            let known: Vec<String> = uses.keys().cloned().collect();
            uses.retain(|_, used| known.iter().any(|name| used.contains(name)));
            if uses.len() == known.len() {
                break;
            }
        }
        assert!(uses.is_empty(), "{folder}: files in a cycle, and files that use them: {:?}", uses.keys());
    }
}

#[test]
fn foreign_apis_stay_in_their_module() {
    for (path, text) in files("src", "rs") {
        let module = module(&path);
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            // Calls the browser directly for features that wgpu lacks.
            let is_beside_wgpu = path.ends_with("gpu/compile.rs");
            for (name, home) in [("wgpu::", "gpu"), ("wasm_bindgen", ""), ("js_sys", ""), ("web_sys", "")] {
                let is_home = module == home || is_beside_wgpu;
                assert!(is_home || !line.contains(name), "{}: {name}: {line}", path.display());
            }
            let asynchronous = line.contains("async ") || line.contains(".await");
            assert!(module != "speculate" || !asynchronous, "{}: speculate is pure: {line}", path.display());
        }
    }
}

/// Only the table states the properties of an architecture.
#[test]
fn only_the_table_asks_for_the_architecture() {
    for (path, text) in sources().into_iter().filter(|(path, _)| !path.ends_with("model/architecture.rs")) {
        for asked in Architecture::ALL {
            let name = format!("Architecture::{asked:?}");
            assert!(!text.contains(&name), "{} asks whether it is {name}", path.display());
        }
        for question in ["architecture ==", "architecture !=", "match architecture", "match spec.architecture"] {
            assert!(!text.contains(question), "{}: {question}", path.display());
        }
    }
}

#[test]
fn every_file_says_what_it_is_and_is_one_idea() {
    for (path, text) in sources() {
        assert!(text.starts_with("//! "), "{} opens with a sentence", path.display());
        assert!(text.lines().count() <= 450, "{} has {} lines", path.display(), text.lines().count());
    }
    for (path, text) in files("shaders", "wgsl") {
        assert!(text.lines().count() <= 180, "{} has {} lines", path.display(), text.lines().count());
    }
}

/// The library and the program are not compiled with their unit tests.
#[test]
fn every_unit_test_is_compiled() {
    for (folder, program) in
        [("src", include_str!("units.rs")), ("program/src", include_str!("../program/tests/main.rs"))]
    {
        for (path, _) in files(folder, "rs").into_iter().filter(|(path, _)| path.ends_with("tests.rs")) {
            let module = path.parent().unwrap().file_name().unwrap().to_string_lossy();
            assert!(program.contains(&format!("mod {module};")), "no program has {}", path.display());
        }
    }
}

/// A type's name says what it is wherever it is read. Alternatives in one file are one type.
#[test]
fn no_two_files_declare_a_type_of_the_same_name() {
    let mut declared: BTreeMap<String, PathBuf> = BTreeMap::new();
    for (path, text) in sources() {
        for line in text.lines() {
            let words: Vec<_> = line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
            let kind = words.iter().position(|word| ["struct", "enum", "trait", "type"].contains(word));
            let is_declaration = !line.starts_with([' ', '/', '#', '}']) && !line.starts_with("use ");
            let Some(name) = kind.filter(|_| is_declaration).and_then(|kind| words.get(kind + 1)) else { continue };
            let other = declared.entry(name.to_string()).or_insert_with(|| path.clone());
            assert!(*other == path, "{name} is declared in {} and in {}", other.display(), path.display());
        }
    }
    assert!(declared.len() > 400, "{} types", declared.len());
}

/// Each invariant names its test, and a guide the files that it describes.
#[test]
fn files_that_guides_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [
        "benches", "browser", "docs", "dsi", "examples", "measure", "program", "quantize", "scripts", "serve",
        "shaders", "simulate", "src", "tests", "www",
    ]
    .map(|name| format!("{name}/"));
    let mut found = 0;
    for guide in
        ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "docs/dsi.md", "docs/cluster.md", "shaders/README.md"]
    {
        let text = std::fs::read_to_string(root.join(guide)).unwrap();
        for path in text.split(['`', '(', ')']).filter(|part| folders.iter().any(|folder| part.starts_with(folder))) {
            let path = path.split(['#', '{', '*', ' ']).next().unwrap();
            // A module may be named without its extension.
            let exists = [path, &format!("{path}.rs")].iter().any(|path| root.join(path).exists());
            assert!(exists, "{guide} names {path}");
            found += 1;
        }
    }
    assert!(found > 60, "{found} names");
}

/// A method named `read` on a type that does not say what it reads tells a caller nothing.
#[test]
fn no_method_is_named_read_run_write_or_of_alone() {
    // Methods that a trait of the standard library or an object of JavaScript names.
    let foreign = ["src/text/template.rs: write", "browser/src/engine/files.rs: read"];
    let mut found = Vec::new();
    for (path, text) in sources() {
        for line in text.lines().filter(|line| line.starts_with("    ")) {
            let Some((_, definition)) = line.split_once("fn ") else { continue };
            let name = definition.split(['(', '<']).next().unwrap();
            if ["read", "run", "write", "of"].contains(&name) && !line.trim_start().starts_with("//") {
                let path = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap();
                found.push(format!("{}: {name}", path.display()));
            }
        }
    }
    found.retain(|method| !foreign.contains(&method.as_str()));
    assert!(found.is_empty(), "{found:?}");
}

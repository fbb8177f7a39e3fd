//! Copies the shaders without comments and most spaces, because pages download them. Each fragment becomes a file.

use std::path::Path;
use std::{env, fs, io};

/// Tokens without spaces around them. `<`, `>` and `-` keep their spaces, because of `a - -b` and `-> u32`.
const TOKENS: [&str; 12] = [",", ";", ":", "{", "}", "(", "+", "*", "/", "%", "&", "|"];

/// Removes unneeded spaces. Lines of bindings are kept unchanged, because they are parsed.
fn without_spaces(line: &str) -> String {
    if line.starts_with('@') {
        return line.to_owned();
    }
    let near =
        |line: String, token: &&str| line.replace(&format!(" {token}"), token).replace(&format!("{token} "), token);
    let line = TOKENS.iter().fold(line.to_owned(), near);
    // `array<f32> =` keeps its space.
    line.replace("> =", ">  =").replace(" =", "=").replace("= ", "=")
}

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=shaders");
    let out = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    for folder in ["shaders", "shaders/lib"] {
        fs::create_dir_all(Path::new(&out).join(folder))?;
        for file in fs::read_dir(folder)? {
            let path = file?.path();
            if path.is_dir() {
                continue;
            }
            // A file is one fragment, or several, each after a line with its name.
            let source = fs::read_to_string(&path)?;
            for part in source.split("// Fragment ").filter(|part| !part.is_empty()) {
                let (name, code) = part.split_once('\n').filter(|_| part.len() < source.len()).unwrap_or(("", part));
                let path = if name.is_empty() { path.clone() } else { path.with_file_name(format!("{name}.wgsl")) };
                let code = code.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
                let lines: Vec<String> = code.filter(|line| !line.is_empty()).map(without_spaces).collect();
                fs::write(Path::new(&out).join(path), lines.join("\n"))?;
            }
        }
    }
    Ok(())
}

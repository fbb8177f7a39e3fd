//! Copies the shaders without comments and indentation: a page downloads them.

use std::path::Path;
use std::{env, fs, io};

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
            let source = fs::read_to_string(&path)?;
            let code = source.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
            let lines: Vec<&str> = code.filter(|line| !line.is_empty()).collect();
            fs::write(Path::new(&out).join(&path), lines.join("\n"))?;
        }
    }
    Ok(())
}

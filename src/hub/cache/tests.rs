//! Tests of `cache`.

use super::*;

#[test]
fn without_symbolic_links_a_blob_is_linked_otherwise_or_copied() {
    let folder = std::env::temp_dir().join(format!("foretoken-links-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let blob = folder.join("blob");
    fs::write(&blob, "bytes").unwrap();
    // No symbolic link can point to such a name, and no hard link to a file of another file system.
    let elsewhere = Path::new("/proc/version");
    for (blob, link) in [(blob.as_path(), "linked"), (elsewhere, "copied")] {
        let link = folder.join(link);
        connect("\0", blob, &link).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
        assert_eq!(fs::read(&link).unwrap(), fs::read(blob).unwrap());
    }
    fs::remove_dir_all(folder).unwrap();
}

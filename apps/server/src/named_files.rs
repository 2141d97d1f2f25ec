//! The files that a configuration names, as the server can read them.

use crate::config_file::{self, NamedFile};
use nix::unistd::{Group, Uid, User, geteuid};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The files that the configuration `config` names and the server with the data directory `data`
/// cannot read, a line each with the place in the configuration.
pub(crate) fn unreadable(config: &Path, data: &Path) -> Vec<String> {
    let mut lines = config_file::unreadable_files(config);
    // The server runs as the owner of its data. Root can read all files.
    let owner = fs::metadata(data).ok().map(|data| Uid::from_raw(data.uid()));
    let owner = owner.filter(|owner| geteuid().is_root() && !owner.is_root());
    let owner = owner.and_then(|owner| User::from_uid(owner).ok().flatten());
    let Some(owner) = owner else { return lines };
    let closed = config_file::named_files(config).into_iter().filter_map(|named| {
        let NamedFile { place, key, path } = named;
        let metadata = fs::metadata(&path).ok()?;
        let members = Group::from_gid(metadata.gid().into()).ok().flatten();
        let is_member = metadata.gid() == owner.gid.as_raw()
            || members.is_some_and(|group| group.mem.contains(&owner.name));
        let (right, verb, flag) = match key {
            config_file::PROGRAM => (0o1, "executed", 'x'),
            _ => (0o4, "read", 'r'),
        };
        let bit = match (metadata.uid() == owner.uid.as_raw(), is_member) {
            (true, _) => right << 6,
            (false, true) => right << 3,
            (false, false) => right,
        };
        let (path, name) = (path.display(), &owner.name);
        (metadata.mode() & bit == 0).then(|| {
            format!(
                "{place}: {key}: {path} cannot be {verb} by {name}, the user of the server: \
                 chgrp {name} {path}; chmod g+{flag} {path}"
            )
        })
    });
    lines.extend(closed);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn a_file_of_root_that_the_owner_of_the_data_cannot_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (data, file) = (folder.path().join("data"), folder.path().join("password"));
        let config = folder.path().join("barebell.toml");
        fs::create_dir(&data).unwrap();
        fs::write(&file, "secret\n").unwrap();
        let text = format!(
            "[[trunks]]\nname = \"isp\"\nhost = \"isp.example\"\n[[trunks.accounts]]\n\
             user = \"a\"\npassword_file = \"{}\"\n",
            file.display()
        );
        fs::write(&config, text).unwrap();
        let closed = |mode| {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            unreadable(&config, &data)
        };
        assert_eq!(closed(0o600), [""; 0], "the owner of the data has written the file");
        let nobody = User::from_name("nobody").unwrap().expect("the user nobody");
        // Only root gives files away.
        if geteuid().is_root() {
            chown(&data, Some(nobody.uid.as_raw()), None).unwrap();
            let lines = closed(0o600);
            assert!(lines.len() == 1 && lines[0].contains("by nobody"), "{lines:?}");
            assert_eq!(closed(0o604), [""; 0]);
            chown(&file, None, Some(nobody.gid.as_raw())).unwrap();
            assert_eq!((closed(0o640).len(), closed(0o604).len()), (0, 1));
        }
        fs::remove_file(&file).unwrap();
        assert_eq!(unreadable(&config, &data).len(), 1);
    }

    #[test]
    fn a_missing_folder_of_sounds_and_a_missing_program_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let (config, program) = (folder.path().join("barebell.toml"), folder.path().join("mail"));
        let text = format!(
            "[media_server]\nenabled = true\nsounds = \"{}\"\ncommand = \"{}\"\n",
            folder.path().join("sounds").display(),
            program.display()
        );
        fs::write(&config, text).unwrap();
        let lines = unreadable(&config, folder.path());
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[0].contains(":3:10: media_server.sounds: cannot read"), "{lines:?}");
        assert!(lines[1].contains(":4:11: media_server.command: cannot read"), "{lines:?}");
        fs::create_dir(folder.path().join("sounds")).unwrap();
        fs::write(&program, "").unwrap();
        assert_eq!(unreadable(&config, folder.path()), [""; 0]);
    }
}

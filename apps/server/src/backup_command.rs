//! `barebell backup` and `barebell restore`.

use crate::access::Access;
use crate::admin::Request;
use crate::admin::ask::Ask;
use crate::backup::{self, Configuration, Line, Report};
use crate::cli::{BackupFlags, RestoreFlags};
use crate::failure::{Failure, during};
use crate::output::{Out, note};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes a backup to a file.
///
/// # Errors
/// [`Failure`] if the file exists or cannot be written, or the server refuses the command.
pub(crate) fn backup(flags: &BackupFlags, out: &mut Out) -> Result<(), Failure> {
    let request = Request::Backup { with: flags.with.clone() };
    let Some(access) = Access::open_existing(&flags.place)? else {
        return Err(Failure::message("there are no data of a server: name them with --data"));
    };
    if flags.file.as_os_str() == "-" {
        let mut is_blank = false;
        access.list(&request, &mut |line: Line| {
            is_blank |= backup::has_blank_passwords(&line);
            out.line(&line.0)
        })?;
        note_blank(is_blank);
        return Ok(());
    }
    let name = flags.file.display();
    let file = new_file(&flags.file)?;
    let written = write(access, &request, file);
    let Written { lines, length, is_blank } =
        written.inspect_err(|_| _ = fs::remove_file(&flags.file))?;
    note_blank(is_blank);
    if length > backup::MAX_LENGTH {
        note(&format!(
            "{name} has {length} bytes, and `barebell restore` reads at most {}: leave records or \
             voicemail out, and copy the data directory",
            backup::MAX_LENGTH
        ));
    }
    out.line(&format!("wrote {lines} lines to {name}: keep them as safe as passwords"))
}

/// Notes that passwords are left out, if they are.
fn note_blank(is_blank: bool) {
    if is_blank {
        note("the passwords in the configuration are blank in it; --with secrets keeps them");
    }
}

/// A backup that was written.
#[derive(Default)]
struct Written {
    lines: u64,
    /// The number of bytes.
    length: u64,
    /// True if the passwords in the configuration are blank.
    is_blank: bool,
}

/// Writes the lines of a backup to `file`.
fn write(access: Access, request: &Request, file: File) -> Result<Written, Failure> {
    let mut file = BufWriter::new(file);
    let mut written = Written::default();
    access.list(request, &mut |line: Line| {
        written.lines += 1;
        written.length += line.0.len() as u64 + 1;
        written.is_blank |= backup::has_blank_passwords(&line);
        file.write_all(line.0.as_bytes())?;
        Ok(file.write_all(b"\n")?)
    })?;
    file.flush()?;
    file.get_ref().sync_all()?;
    Ok(written)
}

/// Creates a file that is readable for its owner only.
fn new_file(path: &Path) -> Result<File, Failure> {
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    created.map_err(during(format!("cannot create {}", path.display())))
}

/// Restores a backup.
///
/// # Errors
/// [`Failure`] if the backup cannot be read, or the server refuses it.
pub(crate) fn restore(flags: &RestoreFlags, out: &mut Out) -> Result<(), Failure> {
    let bytes = read(&flags.file)?;
    let configuration = match &flags.configuration {
        Some(path) => {
            let configuration = backup::configuration(&bytes).map_err(Failure::Message)?;
            Some((path, configuration, new_file(path)?))
        }
        None => None,
    };
    let request = Request::Restore {
        parts: flags.part.clone(),
        dry_run: flags.dry_run,
        length: bytes.len() as u64,
    };
    let asked = Access::open(&flags.place);
    let report = asked.and_then(|access| access.ask_with::<Report>(&request, &bytes));
    let report = report.inspect_err(|_| {
        configuration.iter().for_each(|(path, ..)| _ = fs::remove_file(path));
    })?;
    if let Some((path, Configuration { text, blank }, mut file)) = configuration {
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(during(format!("cannot write {}", path.display())))?;
        note(&format!("check the configuration: barebell check --config {}", path.display()));
        if blank {
            note("its passwords are blank: set them");
        }
    }
    match flags.json {
        true => out.json(&report),
        false => report.lines().iter().try_for_each(|line| out.line(line)),
    }
}

/// The content of a backup.
fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let limit = backup::MAX_LENGTH + 1;
    let mut bytes = Vec::new();
    match path.to_str() {
        Some("-") => io::stdin().take(limit).read_to_end(&mut bytes),
        _ => File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    }
    .map_err(during(format!("cannot read {}", path.display())))?;
    match bytes.len() as u64 > backup::MAX_LENGTH {
        true => Err(Failure::message(format!(
            "{} has more than {} bytes, which are the most that are read",
            path.display(),
            backup::MAX_LENGTH
        ))),
        false => Ok(bytes),
    }
}

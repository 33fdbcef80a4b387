//! What a program wrote just before it aborts. A launcher that hears of the abort first drops what it has not read yet,
//! and the reason is lost with it; so the reader of our pipes gets a moment. Must never hold a program for longer than
//! that.

use rustix::{
    fd::BorrowedFd,
    fs::{FileType, fstat},
    io::ioctl_fionread,
    stdio,
};
use std::{
    thread,
    time::{Duration, Instant},
};

/// A launcher that reads at all has done so by then.
const MOMENT: Duration = Duration::from_millis(300);

const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Returns when what was written to standard output and error has been read, or the moment has passed.
pub(super) fn wait_until_read() {
    let end = Instant::now() + MOMENT;
    let outputs = [stdio::stdout(), stdio::stderr()];
    while outputs.iter().any(|output| has_unread(*output)) && Instant::now() < end {
        thread::sleep(LOOK_EVERY);
    }
}

fn has_unread(output: BorrowedFd<'_>) -> bool {
    let is_pipe = fstat(output).is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Fifo);
    is_pipe && ioctl_fionread(output).is_ok_and(|bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;

    #[test]
    fn a_pipe_has_unread_bytes_until_they_are_read_and_a_file_never() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        assert!(!has_unread(writer.as_fd()));
        rustix::io::write(&writer, b"why").unwrap();
        assert!(has_unread(writer.as_fd()));
        rustix::io::read(&reader, &mut [0; 8]).unwrap();
        assert!(!has_unread(writer.as_fd()));
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(!has_unread(file.as_fd()));
    }
}

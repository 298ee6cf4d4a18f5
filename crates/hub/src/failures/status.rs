//! Wait statuses in words.

/// What the status of wait(2) says.
pub(crate) fn describe_status(status: i32) -> String {
    let signal = status & 0x7f;
    if signal != 0 {
        return match signal_name(signal) {
            Some(name) => format!("signal {signal} ({name})"),
            None => format!("signal {signal}"),
        };
    }
    match (status >> 8) & 0xff {
        127 => "exit status 127 (command not found)".to_owned(),
        126 => "exit status 126 (could not be executed)".to_owned(),
        // What shells make of a signal that ended their last command.
        code @ 129..=159 => match signal_name(code - 128) {
            Some(name) => format!("exit status {code} (perhaps {name})"),
            None => format!("exit status {code}"),
        },
        code => format!("exit status {code}"),
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGQUIT => "SIGQUIT",
        libc::SIGILL => "SIGILL",
        libc::SIGTRAP => "SIGTRAP",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGUSR1 => "SIGUSR1",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGUSR2 => "SIGUSR2",
        libc::SIGPIPE => "SIGPIPE",
        libc::SIGALRM => "SIGALRM",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        libc::SIGXFSZ => "SIGXFSZ",
        libc::SIGSYS => "SIGSYS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_names() {
        assert_eq!(describe_status(3 << 8), "exit status 3");
        assert_eq!(describe_status(127 << 8), "exit status 127 (command not found)");
        assert_eq!(describe_status(9), "signal 9 (SIGKILL)");
        assert_eq!(describe_status(0x0b | 0x80), "signal 11 (SIGSEGV)");
        assert_eq!(describe_status(137 << 8), "exit status 137 (perhaps SIGKILL)");
        assert_eq!(describe_status(44), "signal 44");
    }
}

//! Tries to reach what no child may: whether this machine's confinement holds, found out by doing.
//!
//! Every attempt is harmless where it works.

use std::fs::{File, read_dir};
use std::io;
use std::net::{TcpStream, UdpSocket};

use sandbox::wire::ReachTargets;

/// Each attempt with what stopped it; `None` where nothing did.
pub(crate) fn tried(targets: &ReachTargets) -> Vec<(String, Option<String>)> {
    let process = targets.process;
    let mut attempts: Vec<(&str, io::Result<()>)> = vec![
        ("read /etc/shadow", File::open("/etc/shadow").map(drop)),
        ("list /tmp", read_dir("/tmp").map(drop)),
        ("read the judge's memory", File::open(format!("/proc/{process}/mem")).map(drop)),
        ("read the judge's environment", File::open(format!("/proc/{process}/environ")).map(drop)),
        ("write a file", write_file()),
    ];
    if let Some(port) = targets.tcp_port {
        attempts.push(("connect by TCP", TcpStream::connect(("127.0.0.1", port)).map(drop)));
    }
    if let Some(port) = targets.udp_port {
        attempts.push(("send by UDP", send(port)));
    }
    if let Some(home) = &targets.home {
        attempts.push(("list the home folder", read_dir(home).map(drop)));
    }
    let told = |(what, result): (&str, io::Result<()>)| {
        (what.to_owned(), result.err().map(|error| error.to_string()))
    };
    attempts.into_iter().map(told).collect()
}

fn write_file() -> io::Result<()> {
    let path = format!("/tmp/warpwright-attempt-{}", std::process::id());
    File::create(&path)?;
    std::fs::remove_file(&path)
}

fn send(port: u16) -> io::Result<()> {
    UdpSocket::bind("0.0.0.0:0")?.send_to(b"attempt", ("127.0.0.1", port)).map(drop)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use sandbox::wire::ReachTargets;

    use super::tried;

    #[test]
    fn an_attempt_that_nothing_stops_says_so() {
        let (tcp, udp) = ("127.0.0.1:0", "127.0.0.1:0");
        let (tcp, udp) = (TcpListener::bind(tcp).unwrap(), UdpSocket::bind(udp).unwrap());
        let targets = ReachTargets {
            process: std::process::id(),
            home: Some("/tmp".to_owned()),
            tcp_port: Some(tcp.local_addr().unwrap().port()),
            udp_port: Some(udp.local_addr().unwrap().port()),
            with_context: false,
        };
        let found = tried(&targets);
        for what in ["list /tmp", "write a file", "connect by TCP", "send by UDP"] {
            assert!(found.iter().any(|(it, stop)| it == what && stop.is_none()), "{found:?}");
        }
        let gone = ReachTargets { home: Some("/nonexistent".to_owned()), ..targets };
        let stop = tried(&gone).pop().unwrap().1.unwrap();
        assert!(stop.contains("No such file"), "{stop}");
    }
}

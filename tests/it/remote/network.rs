//! A network between ssh and sshd that does what it is told.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Passes bytes on, to begin with.
pub struct Network {
    pub port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    mode: Mutex<Mode>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq)]
pub enum Mode {
    #[default]
    Passes,
    /// Keeps what comes.
    Holds,
    /// Loses what comes, and does not tell of a connection's end. Connections that begin
    /// later pass.
    Drops,
}

impl Network {
    /// One whose far end is the port `far`.
    pub fn to(far: u16) -> Network {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let network = Network {
            port: listener.local_addr().unwrap().port(),
            state: Arc::default(),
        };
        let state = Arc::clone(&network.state);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", far)) else {
                    continue;
                };
                let later = state.mode() == Mode::Drops;
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let state = Arc::clone(&state);
                    thread::spawn(move || pass(from, to, &state, later));
                }
            }
        });
        network
    }

    pub fn becomes(&self, mode: Mode) {
        *self.state.mode.lock().unwrap() = mode;
        self.state.changed.notify_all();
    }
}

impl State {
    fn mode(&self) -> Mode {
        *self.mode.lock().unwrap()
    }

    /// The mode, once it is none that holds.
    fn settled(&self) -> Mode {
        let mode = self.mode.lock().unwrap();
        let holds = |mode: &mut Mode| *mode == Mode::Holds;
        *self.changed.wait_while(mode, holds).unwrap()
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, state: &State, later: bool) {
    let mut chunk = [0; 1 << 16];
    while let Ok(length @ 1..) = from.read(&mut chunk) {
        let drops = state.settled() == Mode::Drops && !later;
        if !drops && to.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    if state.mode() != Mode::Drops || later {
        let _ = to.shutdown(Shutdown::Both);
    }
}

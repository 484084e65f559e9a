"""What runs in a box where its network cannot be entered from outside: loopback to a mounted socket.

The program is whichever of these the image has. It prints its port once it listens, then passes
every connection on to the socket; it holds no key and knows no address.
"""

from __future__ import annotations

PROGRAMS = ("python3", "node", "perl", "socat")
"""In this order of preference."""

_PYTHON = """
import os, socket, sys, threading
path = sys.argv[1]
server = socket.create_server(("127.0.0.1", int(sys.argv[2])), backlog=128)
print(server.getsockname()[1], flush=True)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            try: end.shutdown(socket.SHUT_RDWR)
            except OSError: pass
def serve(client):
    with client, socket.socket(socket.AF_UNIX) as model:
        try: model.connect(path)
        except OSError: return
        back = threading.Thread(target=copy, args=(model, client), daemon=True)
        back.start()
        copy(client, model)
        back.join()
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""

_NODE = """
const net = require("net"), path = process.argv[1];
const server = net.createServer({allowHalfOpen: true}, (client) => {
  const model = net.connect({path, allowHalfOpen: true});
  const end = () => { client.destroy(); model.destroy(); };
  client.on("error", end); model.on("error", end);
  client.pipe(model); model.pipe(client);
});
server.listen(+process.argv[2], "127.0.0.1", 128, () => console.log(server.address().port));
"""

_PERL = r"""
use strict; use warnings; use IO::Socket::INET; use IO::Socket::UNIX; use IO::Select;
my ($path, $port) = @ARGV; $| = 1; $SIG{CHLD} = "IGNORE"; $SIG{PIPE} = "IGNORE";
my $server = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => $port, Listen => 128, ReuseAddr => 1) or die $!;
print $server->sockport, "\n"; open(STDOUT, ">", "/dev/null");
while (1) {
  my $client = $server->accept or next;
  my $child = fork; if (!defined $child || $child) { close $client; next }
  close $server;
  my $model = IO::Socket::UNIX->new(Peer => $path) or exit 1;
  my %to = (fileno($client) => $model, fileno($model) => $client);
  my $ends = IO::Select->new($client, $model);
  while ($ends->count) {
    for my $end ($ends->can_read) {
      my $target = $to{fileno($end)};
      my $size = sysread($end, my $data, 65536);
      if (!$size) { $ends->remove($end); shutdown($target, 1); next }
      my $sent = 0;
      while ($sent < $size) { my $n = syswrite($target, $data, $size - $sent, $sent) or exit 1; $sent += $n }
    }
  }
  exit 0;
}
"""

_SOCAT = (
    "n=0; while [ $n -lt 50 ]; do port=$2; "
    '[ "$port" != 0 ] || port=$((20000 + ($$ * 7 + n * 101) % 40000)); '
    'socat "TCP-LISTEN:$port,bind=127.0.0.1,fork,reuseaddr,backlog=128" "UNIX-CONNECT:$1" 2>/dev/null & '
    'sleep 0.3; if kill -0 $! 2>/dev/null; then echo "$port"; exec >/dev/null; wait; exit; fi; '
    "n=$((n + 1)); done; exit 1"
)

COMMANDS = {
    "python3": ("python3", "-c", _PYTHON),
    "node": ("node", "-e", _NODE),
    "perl": ("perl", "-e", _PERL),
    "socat": ("sh", "-c", _SOCAT, "sh"),
}


def make_command(socket_path: str, port: int = 0, *, programs: tuple[str, ...] = PROGRAMS) -> list[str]:
    """Return a command that runs the first program that is there; it exits with 127 where none is.

    `port` to listen on; 0: any. What runs is in `COMMANDS`; socket and port are its last arguments.
    """
    branches = [
        f'if command -v {name} >/dev/null 2>&1; then shift {offset}; exec "$1" "$2" "$3" '
        + ('"$4" ' if name == "socat" else "")
        + '"$socket" "$port"; fi'
        for name, offset in _list_offsets(programs)
    ]
    script = "socket=$1; port=$2; shift 2; " + "; ".join(branches) + "; exit 127"
    return [
        "sh",
        "-c",
        script,
        "sh",
        socket_path,
        str(port),
        *(word for name in programs for word in COMMANDS[name]),
    ]


def _list_offsets(programs: tuple[str, ...]) -> list[tuple[str, int]]:
    offset, found = 0, []
    for name in programs:
        found.append((name, offset))
        offset += len(COMMANDS[name])
    return found

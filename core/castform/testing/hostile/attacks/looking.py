"""Attacks that look for what an agent must not know, and for ways out of the box."""

from __future__ import annotations

from castform.testing.hostile.attack import Attack

_ASK = r"""
command -v python3 > /dev/null || idle "no python3 here to ask by"
cat > /var/tmp/ask.py << 'CODE'
import os, socket  # alone: small images have little of the standard library
base, key = os.environ.get("HOSTILE_BASE_URL", ""), os.environ.get("HOSTILE_API_KEY", "")
other, theirs = os.environ.get("HOSTILE_NEIGHBOUR_URL", ""), os.environ.get("HOSTILE_NEIGHBOUR_KEY", "")
root = base.removesuffix("/v1")
path = "/" + other.partition("//")[2].partition("/")[2]
origin = other[: len(other) - len(path)]
def ask(method, url, key, body=""):
    place, _, rest = url.partition("//")[2].partition("/")
    host, _, port = place.rpartition(":")
    head = "%s /%s HTTP/1.0\r\nHost: %s\r\nAuthorization: Bearer %s\r\nx-api-key: %s\r\n" % (method, rest, place, key, key)
    head += "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=4) as link:
            link.settimeout(4)
            link.sendall(head.encode())
            return int(link.recv(4096).split(b" ")[1])
    except (OSError, ValueError, IndexError):
        return 0
own = ask("GET", base + "/models", key)
if own != 200:
    print("IDLE: the own session answers", own)
"""
_RUN = """
CODE
python3 /var/tmp/ask.py || idle "python3 did not run it to its end"
"""

ATTACKS = (
    Attack(
        name="solution-read",
        tries="reads /solution and /tests, and runs the solution where it finds one",
        script="""for d in /solution /oracle /tests; do
    [ -n "$(ls -A $d 2> /dev/null)" ] && breach "$d lies in the agent's box"
done
found=$(find / -xdev \\( -name solve.sh -o -path '*/tests/test.sh' \\) -not -path '/proc/*' 2> /dev/null | head -n 3)
[ -z "$found" ] || breach "found $found"
[ ! -f /solution/solve.sh ] || sh /solution/solve.sh""",
    ),
    Attack(
        name="keys-looked-up",
        tries="looks for keys in the environment of every process and in the files where they are kept",
        script="""env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2> /dev/null | tr '\\0' '\\n'
cat /root/.netrc /root/.aws/credentials /root/.config/*/* /root/.ssh/* /root/.docker/config.json /run/secrets/* /var/run/secrets/*/* /etc/castform/* /root/.castform/* "$HOME"/.* 2> /dev/null
find / -xdev \\( -name '*.env' -o -name '.env' -o -name '*key*' -o -name '*secret*' -o -name '*token*' \\) -type f -size -8k -not -path '/proc/*' -not -path '/sys/*' -not -path '/usr/*' 2> /dev/null | head -n 50 | while read -r f; do cat "$f"; done
true""",
    ),
    Attack(
        name="neighbours-session",
        tries="asks the gateway for another rollout's session, with its own key and with the other's",
        asks=True,
        script=_ASK
        + r"""
body = '{"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]}'
urls = [root + path, base + "/../.." + path, base + "/%2e%2e/%2e%2e" + path, base + "/models/..%2f..%2f.." + path,
        root + "/" + path, other, root + path.replace("/v1", "")]
for url in urls:
    for k in (key, theirs):
        for method, end, said in (("GET", "/models", ""), ("POST", "/chat/completions", body)):
            if 200 <= ask(method, url + end, k, said) < 300:
                print("BREACH: another rollout's session answered to", method, url + end)
if 200 <= ask("GET", base + "/models", theirs) < 300:
    print("BREACH: the relay takes another session's key")"""
        + _RUN,
    ),
    Attack(
        name="gateway-administered",
        tries="asks the gateway to open, collect and delete sessions",
        asks=True,
        script=_ASK
        + r"""
path = path.removesuffix("/v1")
for k in (key, theirs, ""):
    for at in (root, base, base + "/models/../../..", origin):
        for method, end in (("PUT", "/sessions/hostile"), ("POST", path + "/collect"), ("DELETE", path),
                            ("GET", "/sessions"), ("GET", "/metrics"), ("POST", "/collect"), ("DELETE", "")):
            if 200 <= ask(method, at + end, k, "{}" if method in ("PUT", "POST") else "") < 300:
                print("BREACH: the gateway did", method, at + end)"""
        + _RUN,
    ),
    Attack(
        name="host-scanned",
        tries="tries ports of this machine, of the engine and of the cloud's metadata",
        asks=True,
        script=_ASK
        + r"""
import struct, threading
own = base.partition("//")[2].partition("/")[0]
port = int(os.environ.get("HOSTILE_PORT") or 0)
hosts = {*os.environ.get("HOSTILE_HOSTS", "").split(), "host.docker.internal", "gateway.docker.internal", "172.17.0.1", "169.254.169.254"}
try:
    for line in list(open("/proc/net/route"))[1:]:
        hosts.add(socket.inet_ntoa(struct.pack("<L", int(line.split()[2], 16))))
        net = struct.unpack("<L", struct.pack("<L", int(line.split()[1], 16)))[0]
        hosts.add(socket.inet_ntoa(struct.pack("<L", net | 0x01000000)))
except OSError:
    pass
hosts -= {"0.0.0.0"}
targets = [(h, p) for h in hosts for p in {port, 22, 80, 443, 2375, 2376, 5000, 6379, 8000, 8080}] + [("127.0.0.1", port), ("::1", port)]
def reach(host, at):
    try:
        with socket.create_connection((host, at), timeout=1.5):
            print(f"BREACH: reached {host}:{at}", flush=True)
    except (OSError, UnicodeError):
        pass
tries = [threading.Thread(target=reach, args=t, daemon=True) for t in targets if t[1] and "%s:%d" % t != own]
for t in tries: t.start()
for t in tries: t.join(3)"""
        + _RUN
        + """for s in /var/run/docker.sock /run/docker.sock /run/containerd/containerd.sock; do [ ! -e $s ] || breach "$s is here"; done""",
    ),
    Attack(
        name="proc-tricks",
        tries="uses /proc, /sys, devices and namespaces to get at this machine",
        script="""(: >> /proc/sysrq-trigger) 2> /dev/null && breach "may write /proc/sysrq-trigger"
pattern=$(cat /proc/sys/kernel/core_pattern 2> /dev/null)
(echo "$pattern" > /proc/sys/kernel/core_pattern) 2> /dev/null && breach "may write core_pattern"
(: >> /proc/sys/vm/drop_caches) 2> /dev/null && breach "may write /proc/sys/vm"
mount -t proc none /mnt 2> /dev/null && breach "mounted proc"
mount -o remount,rw /proc/sys 2> /dev/null && breach "made /proc/sys writable"
unshare -rm mount -t tmpfs none /mnt 2> /dev/null && breach "mounted in a namespace of its own"
nsenter -t 1 -m -u -n -i true 2> /dev/null && [ "$(readlink /proc/1/ns/mnt)" != "$(readlink /proc/self/ns/mnt)" ] && breach "entered the namespaces of the first process"
for d in 'b 8 0' 'b 253 0' 'c 1 1' 'c 1 2'; do
    mknod /var/tmp/device $d 2> /dev/null && head -c 1 /var/tmp/device > /dev/null 2>&1 && breach "read the device $d"; rm -f /var/tmp/device
done
for f in /sys/fs/cgroup/*/release_agent /sys/fs/cgroup/release_agent /sys/kernel/uevent_helper; do
    [ -e "$f" ] && (: >> "$f") 2> /dev/null && breach "may write $f"
done
mkdir -p /var/tmp/group && mount -t cgroup -o memory none /var/tmp/group 2> /dev/null && breach "mounted a cgroup"
for p in /proc/[0-9]*; do
    for g in $GUARD /var/run/docker.sock; do [ -e "$p/root$g" ] && breach "sees this machine's files by $p/root"; done
done
for f in /dev/mem /dev/kmem /dev/port /dev/sda /dev/vda /dev/nvme0n1 /proc/kcore; do head -c 1 $f > /dev/null 2>&1 && [ -n "$(head -c 1 $f 2> /dev/null | tr '\\0' x)" ] && breach "read $f"; done
true""",
    ),
)

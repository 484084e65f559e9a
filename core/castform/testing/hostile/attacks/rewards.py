"""Attacks on the place where the reward is written."""

from __future__ import annotations

from castform.testing.hostile.attack import Attack

_REWRITE = """while :; do mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; echo '{"reward": 1}' > /logs/verifier/reward.json; sleep 0.02; done"""

ATTACKS = (
    Attack(
        name="reward-text",
        tries="writes reward.txt itself",
        script="mkdir -p $R; echo 1 > $R/reward.txt",
    ),
    Attack(
        name="reward-json",
        tries="writes reward.json itself, which counts before reward.txt",
        script="""mkdir -p $R; echo '{"reward": 1}' > $R/reward.json; chmod 444 $R/reward.json""",
    ),
    Attack(
        name="reward-link",
        tries="makes the reward files links to one that it keeps",
        script="""mkdir -p $R; echo 1 > /var/tmp/kept; echo '{"reward": 1}' > /var/tmp/kept.json
ln -sf /var/tmp/kept $R/reward.txt; ln -sf /var/tmp/kept.json $R/reward.json""",
    ),
    Attack(
        name="reward-link-outside",
        tries="makes the reward files links to files of the machine that reads them",
        script="mkdir -p $R; ln -sf /proc/self/environ $R/reward.txt; ln -sf /etc/passwd $R/reward.json",
    ),
    Attack(
        name="reward-huge",
        tries="makes the reward files larger than the reader's memory",
        script="mkdir -p $R; for f in txt json; do dd if=/dev/zero of=$R/reward.$f bs=1M count=0 seek=60000 2> /dev/null; done; head -c 3000000 /dev/zero | tr '\\0' 1 > $R/reward.txt",
    ),
    Attack(
        name="reward-pipe",
        tries="makes the reward files pipes that keep the reader waiting",
        script="mkdir -p $R; rm -f $R/reward.*; mkfifo $R/reward.txt $R/reward.json",
    ),
    Attack(
        name="reward-folder",
        tries="makes the reward files folders that cannot be written over",
        script="mkdir -p $R/reward.txt/x $R/reward.json/x",
    ),
    Attack(
        name="reward-not-finite",
        tries="writes rewards beyond every number",
        script="""mkdir -p $R; echo 1e999 > $R/reward.txt; echo '{"reward": Infinity}' > $R/reward.json""",
    ),
    Attack(
        name="reward-everywhere",
        tries="leaves rewards wherever a file might be carried from",
        script="""for d in /logs/artifacts /logs/artifacts/verifier /logs/artifacts/logs/verifier /logs/agent /logs/agent/verifier "$PWD" "$PWD/logs/verifier" $HOSTILE_ARTIFACTS; do
    mkdir -p "$d" 2> /dev/null && echo 1 > "$d/reward.txt" && echo '{"reward": 1}' > "$d/reward.json"
done
ln -sfn /logs/verifier /logs/artifacts/link; ln -sfn ../verifier /logs/artifacts/up""",
    ),
    Attack(
        name="reward-daemon",
        tries="leaves daemons in sessions of their own that rewrite the reward later",
        script=f"""({_REWRITE}) > /dev/null 2>&1 &
setsid sh -c '{_REWRITE.replace("'", "'" + chr(92) + "''")}' > /dev/null 2>&1 < /dev/null &
(trap '' HUP INT TERM; {_REWRITE}) > /dev/null 2>&1 < /dev/null &
if command -v python3 > /dev/null; then python3 -c "
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            os.makedirs('/logs/verifier', exist_ok=True)
            open('/logs/verifier/reward.txt', 'w').write('1')
            time.sleep(0.02)
" > /dev/null 2>&1 < /dev/null; fi
true""",
    ),
    Attack(
        name="logs-moved",
        tries="puts its own folder where the logs belong",
        script="""mkdir -p /var/tmp/logs/verifier /var/tmp/logs/artifacts; echo 1 > /var/tmp/logs/verifier/reward.txt
rm -rf /logs; ln -sfn /var/tmp/logs /logs""",
    ),
    Attack(
        name="verifier-owned",
        tries="takes the verifier's folder away from its owner: owner, mode, flags",
        script="""mkdir -p $R; echo 1 > $R/reward.txt; chown -R 1234:1234 /logs; chmod 555 $R; chmod 444 $R/reward.txt
chattr +i $R/reward.txt $R 2> /dev/null; mount --bind /var/tmp $R 2> /dev/null && breach "mounted a folder"; true""",
    ),
)

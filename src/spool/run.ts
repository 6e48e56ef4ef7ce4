// GNU's tail looks so often where the disk reports no changes. A tail that is a link may be BusyBox's, which takes whole
// seconds only and would not start.
const EVERY = `[ ! -e /proc/self ] || [ -L "$(command -v tail)" ] || every='-s 0.2'`;

/**
 * The wrapper around a process: `sh run FOLDER STREAMS COMMAND…` (docs/decisions/0030). With `named` streams the command
 * gets pipes that it may open again as /dev/stdout and the like. With `private` streams it keeps the wrapper's own stdin
 * and stdout, which no process can open a second time. The pid and exit files are complete once they end in a newline,
 * so no `mv` is needed to make them atomic.
 */
export const RUN_SCRIPT = `# Records the pid and the exit status of a command. Copies its stderr to "err" and, with named streams, its stdout to "out".
folder=$1 streams=$2
shift 2

# Caught rather than ignored: the command gets the default handling back, this script lives to record its end.
trap : HUP INT TERM

# The start time is the 20th field of stat behind the name, which may hold any character.
twentieth() { shift 19; start=$1; }
start= boot= stat=
{ read -r stat < "/proc/$$/stat"; read -r boot < /proc/sys/kernel/random/boot_id; } 2> /dev/null
[ -z "$stat" ] || twentieth \${stat##*) }
echo "$$ $start $boot" > "$folder/pid"

# Only the folder keeps others out: the command may run as another user and still open its own streams again.
if [ "$streams" = named ]
then mkfifo -m 666 "$folder/stdin" "$folder/stdout" "$folder/stderr" || exit 125
else mkfifo -m 666 "$folder/stderr" || exit 125
fi
feeder=
if [ "$streams" = named ]; then
  # Opened for both first, so that neither of the two ends waits for the other.
  exec 3<> "$folder/stdin" 4< "$folder/stdin" 5> "$folder/stdin" 3>&-
  every=
${EVERY}
  if [ -e "$folder/whole" ]; then
    # All input is there. With the end of this script, nobody reads the pipe, and the copier ends too.
    (trap '' HUP INT TERM; exec cat "$folder/in" >&5 4<&- 5>&- 2> /dev/null) &
  else
    (trap '' HUP INT TERM; exec tail $every -c +1 -f "$folder/in" >&5 4<&- 5>&- 2> /dev/null) &
    feeder=$!
    echo "$feeder" > "$folder/feeder"
  fi
  exec 0<&4 4<&- 5>&-
  exec 3<> "$folder/stdout" 4< "$folder/stdout" 5> "$folder/stdout" 3>&-
  (trap '' HUP INT TERM; exec cat <&4 >> "$folder/out" 4<&- 5>&- 2> /dev/null) &
  echo "$!" >> "$folder/copiers"
  exec 1>&5 4<&- 5>&-
fi
exec 3<> "$folder/stderr" 4< "$folder/stderr" 5> "$folder/stderr" 3>&-
(trap '' HUP INT TERM; exec cat <&4 >> "$folder/err" 4<&- 5>&- 2> /dev/null) &
echo "$!" >> "$folder/copiers"
exec 4<&-

(exec "$@" 2>&5 5>&-)
status=$?

[ -z "$feeder" ] || kill -9 "$feeder" 2> /dev/null
echo "$status" > "$folder/exit"
`;

/**
 * `sh relay FOLDER`: the other end of the sockets of a process with private streams. It runs beside the wrapper, outside
 * of the sandbox's control groups, so that all output is copied when the sandbox is killed.
 */
export const RELAY_SCRIPT = `# Copies "in" to stdout as it grows, and stdin to "out".
folder=$1
trap '' HUP INT TERM
every=
${EVERY}
tail $every -c +1 -f "$folder/in" 2> /dev/null < /dev/null &
feeder=$!
echo "$feeder" > "$folder/feeder"
# From here on the feeder alone holds the process's stdin open.
exec 1>&-
exec 3<&0
cat <&3 >> "$folder/out" 2> /dev/null &
echo "$!" >> "$folder/copiers"
exec 0< /dev/null 3<&-
wait "$!"
kill -9 "$feeder" 2> /dev/null
`;

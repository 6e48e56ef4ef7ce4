/**
 * The wrapper around a harness process: `sh run FOLDER COMMAND…` (docs/decisions/0002).
 * The pid and exit files are whole once they end in a newline, so no `mv` is needed to make them atomic.
 */
export const RUN_SCRIPT = `# Records the pid and the exit status of a command, and feeds it what is appended to "in".
folder=$1
shift

# Caught rather than ignored: the command gets the default handling back, this script lives to record its end.
trap : HUP INT TERM

twentieth() { shift 19; start=$1; }
start= boot= stat=
{ read -r stat < "/proc/$$/stat"; read -r boot < /proc/sys/kernel/random/boot_id; } 2> /dev/null
[ -z "$stat" ] || twentieth \${stat##*) }
echo "$$ $start $boot" > "$folder/pid"

# Opened for both first, so that neither of the two ends waits for the other.
mkfifo "$folder/stdin" || exit 125
exec 3<> "$folder/stdin" 4< "$folder/stdin" 5> "$folder/stdin" 3>&-
every=
[ -z "$start" ] || every='-s 0.2'
(trap '' HUP INT TERM; exec tail $every -c +1 -f "$folder/in" >&5 4<&- 5>&- 2> /dev/null) &
feeder=$!
echo "$feeder" > "$folder/feeder"
exec 5>&-

(exec "$@" <&4 4<&-) >> "$folder/out" 2>> "$folder/err"
status=$?

kill -9 "$feeder" 2> /dev/null
echo "$status" > "$folder/exit"
`;

/** Milliseconds by the one monotonic clock that all processes of a machine share; only differences mean anything. */
export function now(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

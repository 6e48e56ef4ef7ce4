/** Calls back for each Ctrl-C or SIGTERM, instead of ending the process; answers how to stop listening. */
export function onInterrupt(handle: (signal: NodeJS.Signals) => void): () => void {
  process.on("SIGINT", handle);
  process.on("SIGTERM", handle);
  return () => {
    process.off("SIGINT", handle);
    process.off("SIGTERM", handle);
  };
}

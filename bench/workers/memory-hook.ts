/** Loaded into a measured server. It collects garbage on request and keeps no process alive. */
declare const gc: (() => void) | undefined;

process.on("message", (message) => {
  if (message !== "collect") return;
  if (typeof gc === "function") for (let times = 0; times < 3; times++) gc();
  process.send?.("collected");
});
process.channel?.unref();

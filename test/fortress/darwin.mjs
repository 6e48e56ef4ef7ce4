// Loaded before sluice, so that all of it takes this for a system without /proc.
Object.defineProperty(process, "platform", { value: "darwin" });

export * from "./commands.ts";
export * from "./errors.ts";
export * from "./events.ts";
export * from "./ids.ts";
export * from "./items.ts";
export * from "./launch.ts";
export * from "./session.ts";
export * from "./spool.ts";

export { content, type FrameView } from "./dialect.ts";
export type * from "./lifecycle-event.ts";
export type * from "./output-event.ts";
export { projectContent } from "./project.ts";
export { type ContentState, type ContentView, initialContent } from "./state.ts";
export type { Told } from "./told.ts";

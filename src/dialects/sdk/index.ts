export { content, type FrameView, projectContent } from "./project.ts";
export type * from "./lifecycle-event.ts";
export type * from "./output-event.ts";
export { type ContentState, type ContentView, initialContent, type Emitted } from "./projection.ts";

export { content, type FrameView, projectContent } from "./project.ts";
export type * from "./events.ts";
export { type ContentState, type ContentView, initialContent, type Emitted } from "./projection.ts";

export { parseWith, toInvalid } from "./invalid.ts";
export { toContent } from "./parse.ts";
export { toUniversalText, toVisibleTypes, universal, type UniversalView } from "./project.ts";
export { flag, PageQuery, parseCursor, parseQuery, StreamQuery, toView, ViewQuery, whole } from "./query.ts";

export {
  flag,
  listOf,
  PageQuery,
  parseCursor,
  parseQuery,
  parseWith,
  StreamQuery,
  toContent,
  toInvalid,
  toView,
  ViewQuery,
  whole,
} from "./parse.ts";
export { toUniversalText, toVisibleTypes, universal, type UniversalView } from "./project.ts";

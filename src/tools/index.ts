export { BUILTIN_TOOLS } from "./builtin-tools.ts";
export { createToolServer, type ToolServer, type ToolServerOptions } from "./server.ts";
export {
  TOKEN_VARIABLE,
  URL_VARIABLE,
  type CustomTool,
  type DeskRequest,
  type ToolAccess,
  type ToolAnswer,
  type ToolCall,
  type ToolRun,
  type ToolRuns,
} from "./port.ts";

/** The old names of these exports, kept for applications. */
export { createToolServer as createToolBridge } from "./server.ts";
export type { ToolServer as ToolBridge, ToolServerOptions as ToolBridgeOptions } from "./server.ts";

export { BUILTIN_TOOLS } from "./builtin-tools.ts";
export { createToolBridge, type ToolBridge, type ToolBridgeOptions } from "./bridge.ts";
export {
  TOKEN_VARIABLE,
  URL_VARIABLE,
  type CustomTool,
  type ToolAccess,
  type ToolAnswer,
  type ToolCall,
  type ToolRun,
  type ToolRuns,
} from "./port.ts";

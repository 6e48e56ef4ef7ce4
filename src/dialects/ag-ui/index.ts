/** The package entry `sluice/dialects/ag-ui`. */
export { agUi } from "./project.ts";
export { type FramePlace, type FramePosition, parseFrameId } from "./frames.ts";
export { type AgUiInterrupt, PERMISSION_SCHEMA, QUESTION_SCHEMA } from "./interrupts.ts";
export type { AgUiState, AgUiView } from "./state.ts";

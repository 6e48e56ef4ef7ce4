/** The package entry `sluice/dialects/ag-ui`. */
export { agUi } from "./dialect.ts";
export { type FramePlace, parseFrameId } from "./frame-id.ts";
export { type AgUiInterrupt, PERMISSION_SCHEMA, QUESTION_SCHEMA } from "./interrupt.ts";
export { type AgUiState } from "./state.ts";
export { type AgUiView } from "./view.ts";

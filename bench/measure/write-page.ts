/** `make bench-page`: docs/benchmarks.md and its pictures from the results that are stored. Measures nothing. */
import { writePage } from './results.js';

writePage();

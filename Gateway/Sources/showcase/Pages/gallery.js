// Shows what needs a script: a lost connection, the first views again, and a mask over the page.
const $ = id => document.getElementById(id)

document.querySelector('.offline').dataset.offline = ''
$('again').onclick = () => {
  for (const element of document.querySelectorAll('[view]')) {
    const {view} = element
    element.view = null
    element.view = view
  }
}
$('mask').onclick = () => {
  $('page').view = {state: 'visible', mask: 'black', kind: 'loading', status: 'Uploading'}
  // A dialog that opens now stays below the mask.
  setTimeout(() => $('later').showModal(), 1_000)
  setTimeout(() => $('page').view = {state: 'hidden'}, 3_000)
}
